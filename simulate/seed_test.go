package simulate

import _ "github.com/neuroshard/neuroshard/internal/fixedseed"
