/** The name under which a browser saves a download (RFC 6266, RFC 8187). */

/** Characters that `encodeURIComponent` leaves although RFC 8187 does not allow them. */
const leftOver = /['()*]/gu

const hex = (char: string) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`

/** `path` is normalised: its last segment is the name. Any byte that could end the quoted form becomes `_`. */
export const attachment = (path: string): string => {
  const name = path.slice(path.lastIndexOf("/") + 1)
  const ascii = Array.from(new TextEncoder().encode(name), (byte) => String.fromCharCode(byte))
    .join("")
    .replace(/[^A-Za-z0-9._ -]/gu, "_")
  return `attachment; filename="${ascii}"; filename*=UTF-8''${encodeURIComponent(name).replace(leftOver, hex)}`
}
