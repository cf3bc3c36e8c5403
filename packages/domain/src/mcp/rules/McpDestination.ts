/** Where the address of an MCP server leads. */

/** The `host:port` of an address. */
export const destinationOf = (url: string): string => {
  const { hostname, port, protocol } = new URL(url)
  return `${hostname}:${port === "" ? (protocol === "https:" ? 443 : 80) : port}`
}
