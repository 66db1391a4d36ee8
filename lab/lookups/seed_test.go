package lookups

import _ "github.com/neuroshard/neuroshard/internal/fixedseed"
