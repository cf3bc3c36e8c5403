/** The setting of origins whose pages may read the API. Apart from the protocol, so that reading settings loads no HTTP server. */

/** An origin as browsers send it: a scheme, a host, and a port where it is not the scheme's own. */
export const isOrigin = (text: string): boolean =>
  /^https?:\/\/[\w.\-[\]:]+$/u.test(text) && URL.canParse(text) && new URL(text).origin === text

/** Origins between commas; `null`: it is no list of them. */
export const parse = (list: string): ReadonlyArray<string> | null => {
  const origins = list.split(",").map((origin) => origin.trim())
  return origins.every(isOrigin) ? origins : null
}
