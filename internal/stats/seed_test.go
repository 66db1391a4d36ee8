package stats

import _ "github.com/neuroshard/neuroshard/internal/fixedseed"
