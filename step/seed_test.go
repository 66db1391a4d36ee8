package step

import _ "github.com/neuroshard/neuroshard/internal/fixedseed"
