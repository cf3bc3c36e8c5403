/** The length of a text in UTF-8, and cuts to a length. */

const utf8 = new TextEncoder()

/** Bytes of the text in UTF-8. A lone surrogate counts as its replacement character. */
export const utf8Length = (value: string): number => {
  let bytes = value.length
  for (let i = 0; i < value.length; i++) {
    const unit = value.charCodeAt(i)
    if (unit < 0x80) continue
    if (unit < 0x800) bytes += 1
    else if (unit < 0xd800 || unit > 0xdbff || (value.charCodeAt(i + 1) & 0xfc00) !== 0xdc00) bytes += 2
    else {
      // Four bytes for a pair of two units.
      bytes += 2
      i++
    }
  }
  return bytes
}

/**
 * The text if it has at most `maximum` bytes in UTF-8. Otherwise its beginning and `mark`, together at most `maximum` bytes. Never cuts
 * within a character.
 */
export const cut = (value: string, maximum: number, mark: string): string => {
  // No unit takes more than three bytes.
  if (value.length * 3 <= maximum || utf8Length(value) <= maximum) return value
  let left = maximum - utf8Length(mark)
  let end = 0
  for (const character of value) {
    left -= utf8Length(character)
    if (left < 0) break
    end += character.length
  }
  // Joined and cut again to make a new string: a slice would keep all of the long one in memory (V8).
  return (` ${value.slice(0, end)}${mark}`).slice(1)
}

/** The end of the text, at most `maximum` bytes in UTF-8. Never cuts within a character. */
export const endOf = (value: string, maximum: number): string => {
  const bytes = utf8.encode(value)
  let start = Math.max(0, bytes.length - maximum)
  // A byte that continues a character.
  while ((bytes[start]! & 0xc0) === 0x80) start++
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes.subarray(start))
}
