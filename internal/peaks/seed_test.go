package peaks

import _ "github.com/neuroshard/neuroshard/internal/fixedseed"
