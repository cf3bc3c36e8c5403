/** Hints for other processes, as somebody would send them by hand: one NOTIFY for all topics that came together. */

export const by = (send: (topics: string) => Promise<unknown>): (topic: string) => void => {
  const outbox = new Set<string>()
  return (topic) => {
    if (outbox.size === 0) {
      setImmediate(() => {
        const topics = [...outbox].join(" ")
        outbox.clear()
        // Hints may be lost.
        send(topics).catch(() => {})
      })
    }
    outbox.add(topic)
  }
}
