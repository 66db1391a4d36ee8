package collect

import _ "github.com/neuroshard/neuroshard/internal/fixedseed"
