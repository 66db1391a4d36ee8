package access

import _ "github.com/neuroshard/neuroshard/internal/fixedseed"
