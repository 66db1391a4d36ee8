package worker

import _ "github.com/neuroshard/neuroshard/internal/fixedseed"
