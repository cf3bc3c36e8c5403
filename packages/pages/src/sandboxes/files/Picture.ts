/** Which files are pictures that a page shows. Not SVG: it is a document with scripts. Pure. */

const startsWith = (bytes: Uint8Array, at: number, start: ReadonlyArray<number> | string): boolean =>
  [...(typeof start === "string" ? Buffer.from(start, "latin1") : start)].every((byte, i) => bytes[at + i] === byte)

/** The type by the first bytes, whatever the name says; `null`: no picture. */
export const typeOf = (bytes: Uint8Array): string | null =>
  startsWith(bytes, 0, "\x89PNG\r\n\x1a\n")
    ? "image/png"
    : startsWith(bytes, 0, [0xff, 0xd8, 0xff])
    ? "image/jpeg"
    : startsWith(bytes, 0, "GIF87a") || startsWith(bytes, 0, "GIF89a")
    ? "image/gif"
    : startsWith(bytes, 0, "RIFF") && startsWith(bytes, 8, "WEBP")
    ? "image/webp"
    : null

/** Whether the name is that of a picture, so that its bytes are read. */
export const mayBe = (path: string): boolean => /\.(?:png|jpe?g|gif|webp)$/iu.test(path)
