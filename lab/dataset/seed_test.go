package dataset

import _ "github.com/neuroshard/neuroshard/internal/fixedseed"
