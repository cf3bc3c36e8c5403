/** The network destinations of sandboxes besides their model: a host name and a port, without patterns and IP addresses. */

const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/u

/** Parses a destination; `undefined` if the text is not a name and a port. */
export const destination = (text: string): { readonly host: string; readonly port: number } | undefined => {
  const [, host = "", digits = ""] = /^([^:]{1,253}):(\d{1,5})$/u.exec(text.toLowerCase()) ?? []
  const port = Number(digits)
  if (port < 1 || port > 65_535) return undefined
  const last = host.slice(host.lastIndexOf(".") + 1)
  // Some resolvers take a name that ends in a number as an address: 10.0.0.1, 127.1, 0x7f.1.
  if (!host.split(".").every((label) => LABEL.test(label)) || !/[a-z]/u.test(last) || last.startsWith("0x")) return undefined
  return { host, port }
}
