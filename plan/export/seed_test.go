package export

import _ "github.com/neuroshard/neuroshard/internal/fixedseed"
