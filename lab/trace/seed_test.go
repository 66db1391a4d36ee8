package trace

import _ "github.com/neuroshard/neuroshard/internal/fixedseed"
