package service

import (
	"container/list"
	"sync"
)

// cache keeps the most recently used values, up to a number of bytes. It is safe for concurrent use.
type cache struct {
	most int64

	lock  sync.Mutex
	bytes int64
	items map[string]*list.Element
	order list.List // of cached, the one used last in front
}

type cached struct {
	key   string
	value any
	bytes int64
}

// entryBytes is the memory of an entry without its key and its value.
const entryBytes = 200

func newCache(most int64) *cache { return &cache{most: most, items: map[string]*list.Element{}} }

// get returns the value of a key.
func (c *cache) get(key string) (value any, ok bool) {
	c.lock.Lock()
	defer c.lock.Unlock()
	e, ok := c.items[key]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*cached).value, true
}

// put keeps a value of a number of bytes, and drops the least recently used values. It does not keep
// a value that is larger than an eighth of the cache.
func (c *cache) put(key string, value any, bytes int) {
	item := &cached{key, value, int64(len(key)+bytes) + entryBytes}
	if item.bytes > c.most/8 {
		c.drop(key)
		return
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if e, ok := c.items[key]; ok {
		c.remove(e)
	}
	c.items[key] = c.order.PushFront(item)
	c.bytes += item.bytes
	for c.bytes > c.most {
		c.remove(c.order.Back())
	}
}

// drop forgets a key.
func (c *cache) drop(key string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if e, ok := c.items[key]; ok {
		c.remove(e)
	}
}

// remove removes an entry. The cache is locked.
func (c *cache) remove(e *list.Element) {
	item := c.order.Remove(e).(*cached)
	delete(c.items, item.key)
	c.bytes -= item.bytes
}

// size returns the bytes and the number of the entries.
func (c *cache) size() (bytes int64, entries int) {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.bytes, len(c.items)
}
