package groups

import _ "github.com/neuroshard/neuroshard/internal/fixedseed"
