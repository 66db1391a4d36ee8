package plan

import _ "github.com/neuroshard/neuroshard/internal/fixedseed"
