/** The `content-type` of a request. */

/** Longer headers match no type that is taken here. */
const MAX_CHARACTERS = 256

/** Parameters of a `content-type`: none, or that the text is UTF-8. A semicolon at the end is harmless. */
const IN_UTF8 = /^ *(?:; *(?:charset *= *"?utf-8"? *(?:; *)?)?)?$/iu

/** Whether the header names this media type (in lower case), with no other character set than UTF-8. */
export const isInUtf8 = (header: string | undefined, mediaType: string): boolean =>
  header !== undefined && header.length <= MAX_CHARACTERS && header.slice(0, mediaType.length).toLowerCase() === mediaType &&
  IN_UTF8.test(header.slice(mediaType.length))
