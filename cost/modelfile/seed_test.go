package modelfile

import _ "github.com/neuroshard/neuroshard/internal/fixedseed"
