package input

import _ "github.com/neuroshard/neuroshard/internal/fixedseed"
