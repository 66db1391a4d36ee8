package feature

import _ "github.com/neuroshard/neuroshard/internal/fixedseed"
