package rank

import _ "github.com/neuroshard/neuroshard/internal/fixedseed"
