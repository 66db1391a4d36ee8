package engine

import _ "github.com/neuroshard/neuroshard/internal/fixedseed"
