package sweep

import _ "github.com/neuroshard/neuroshard/internal/fixedseed"
