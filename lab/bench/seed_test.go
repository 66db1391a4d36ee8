package bench

import _ "github.com/neuroshard/neuroshard/internal/fixedseed"
