/** The keys that leave a terminal that runs on: `~.` at the beginning of a line, as in ssh. `~~` there is one `~`. */

const TILDE = 0x7e
const DOT = 0x2e
const isLineEnd = (byte: number) => byte === 0x0d || byte === 0x0a

/** Reads keys; `null`: the person wants to leave. The keys before that in the same chunk are dropped. */
export const make = () => {
  let atLineStart = true
  let tilde = false
  return (keys: Uint8Array): Uint8Array | null => {
    const passed: Array<number> = []
    for (const byte of keys) {
      if (tilde) {
        tilde = false
        if (byte === DOT) return null
        passed.push(TILDE)
        atLineStart = isLineEnd(byte)
        if (byte !== TILDE) passed.push(byte)
        continue
      }
      if (atLineStart && byte === TILDE) {
        tilde = true
        continue
      }
      passed.push(byte)
      atLineStart = isLineEnd(byte)
    }
    return Uint8Array.from(passed)
  }
}
