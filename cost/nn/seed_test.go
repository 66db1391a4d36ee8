package nn

import _ "github.com/neuroshard/neuroshard/internal/fixedseed"
