/**
 * The operator's proxy for outgoing requests, by the usual variables: `HTTPS_PROXY` for https, `HTTP_PROXY` for http, `NO_PROXY` for the
 * destinations that are reached directly. As with curl, the lower case of a name wins over the upper case.
 */
import { BlockList, isIP } from "node:net"

/** A variable is invalid. The message names it and never its value, which may have a password. */
export class InvalidProxy extends Error {
  readonly variable: string

  constructor(variable: string) {
    super(`${variable} must be ${EXPECTED}.`)
    this.variable = variable
  }
}

export const EXPECTED = "the address of an HTTP proxy, such as http://proxy.example:3128 or http://user:password@proxy.example:3128"

export type Environment = Readonly<Record<string, string | undefined>>

export interface ProxySettings {
  /** The proxy for https; `undefined`: none. */
  readonly https: URL | undefined
  readonly http: URL | undefined
  /** The text of `NO_PROXY`, with our own entries. */
  readonly noProxy: string
}

/**
 * Reached directly in any case: this machine, and the metadata of clouds, whose credentials must not pass through another machine. The
 * libraries of clouds read `NO_PROXY` too.
 */
const ALWAYS_DIRECT = ["localhost", "127.0.0.1", "::1", "169.254.169.254", "169.254.170.2", "metadata.google.internal"]

/** Loopback and link-local addresses. */
const direct = new BlockList()
direct.addSubnet("127.0.0.0", 8, "ipv4")
direct.addSubnet("169.254.0.0", 16, "ipv4")
direct.addAddress("::1", "ipv6")
direct.addSubnet("fe80::", 10, "ipv6")
// The metadata of AWS.
direct.addAddress("fd00:ec2::254", "ipv6")

/** The variable that counts, and its text; empty: not set. */
const textOf = (environment: Environment, upper: string): readonly [name: string, text: string] => {
  const lower = upper.toLowerCase()
  const name = (environment[lower] ?? "").trim() === "" ? upper : lower
  return [name, (environment[name] ?? "").trim()]
}

/** The address in a variable; `null`: invalid. Without a scheme it is http, as for curl. */
export const addressOf = (text: string): URL | null => {
  const address = /^[a-z][a-z\d+.-]*:\/\//iu.test(text) ? text : `http://${text}`
  if (address.length > 2000 || !URL.canParse(address)) return null
  const url = new URL(address)
  const isUsable = ["http:", "https:"].includes(url.protocol) && url.hostname !== "" && url.pathname === "/" && url.search === "" &&
    url.hash === ""
  try {
    // The user and the password are percent-encoded.
    decodeURIComponent(url.username)
    decodeURIComponent(url.password)
  } catch {
    return null
  }
  return isUsable ? url : null
}

const proxyIn = (environment: Environment, variable: string): URL | undefined => {
  const [name, text] = textOf(environment, variable)
  if (text === "") return undefined
  const address = addressOf(text)
  if (address === null) throw new InvalidProxy(name)
  return address
}

/** Throws {@link InvalidProxy}. */
export const parse = (environment: Environment): ProxySettings => {
  const [, given] = textOf(environment, "NO_PROXY")
  const entries = new Set([...given.split(/[\s,]+/u).filter((entry) => entry !== ""), ...ALWAYS_DIRECT])
  return {
    https: proxyIn(environment, "HTTPS_PROXY"),
    http: proxyIn(environment, "HTTP_PROXY"),
    noProxy: [...entries].join(",")
  }
}

const bare = (host: string) => host.replace(/^\[|\]$/gu, "").replace(/\.$/u, "").toLowerCase()

const kindOf = (address: string) => isIP(address) === 6 ? "ipv6" : "ipv4"

/** Whether the entry of `NO_PROXY` names an address that is the host's, or a range with it. */
const hasAddress = (entry: string, host: string): boolean => {
  const [network = "", bits] = entry.split("/")
  if (isIP(network) === 0) return false
  const range = new BlockList()
  if (bits === undefined) range.addAddress(network, kindOf(network))
  else if (/^\d{1,3}$/u.test(bits) && Number(bits) <= (isIP(network) === 6 ? 128 : 32)) {
    range.addSubnet(network, Number(bits), kindOf(network))
  }
  return range.check(host, kindOf(host))
}

/** Whether the entry of `NO_PROXY` names the host: itself, a domain above it, an address or a range. A port counts if it is named. */
const covers = (entry: string, host: string, port: string): boolean => {
  if (entry === "*") return true
  const [, name = entry, onlyPort] = /^(\[[^\]]*\]|[^:]*):(\d{1,5})$/u.exec(entry) ?? []
  if (onlyPort !== undefined && onlyPort !== port) return false
  const named = bare(name)
  if (isIP(host) !== 0) return hasAddress(named, host)
  const domain = named.replace(/^\*?\./u, "")
  return domain !== "" && (host === domain || host.endsWith(`.${domain}`))
}

/** The proxy for requests to the address; `undefined`: it is reached directly. */
export const proxyFor = ({ http, https, noProxy }: ProxySettings, url: URL): URL | undefined => {
  const proxy = url.protocol === "https:" ? https : http
  if (proxy === undefined) return undefined
  const host = bare(url.hostname)
  if (isIP(host) !== 0 && direct.check(host, kindOf(host))) return undefined
  if (host === "localhost" || host.endsWith(".localhost")) return undefined
  const port = url.port === "" ? url.protocol === "https:" ? "443" : "80" : url.port
  return noProxy.split(",").some((entry) => covers(entry, host, port)) ? undefined : proxy
}

/** The proxy's address for people, without its user and password. */
export const shown = ({ host, protocol }: URL): string => `${protocol}//${host}`

/** The header by which we sign in to the proxy; `undefined`: without. */
export const authorization = ({ password, username }: URL): string | undefined =>
  username === "" && password === ""
    ? undefined
    : `Basic ${Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`).toString("base64")}`

/** All texts of the settings that must not be shown. */
export const secretsOf = ({ http, https }: ProxySettings): ReadonlyArray<string> =>
  [http, https].flatMap((proxy) => {
    const header = proxy === undefined ? undefined : authorization(proxy)
    if (proxy === undefined || header === undefined) return []
    return [proxy.password, decodeURIComponent(proxy.password), header.slice("Basic ".length)].filter((secret) => secret !== "")
  })

/** The variables of the settings for our child processes, in both cases, since programs read either. */
export const variables = ({ http, https, noProxy }: ProxySettings): Readonly<Record<string, string>> =>
  http === undefined && https === undefined ? {} : Object.fromEntries(
    [["HTTPS_PROXY", https?.href], ["HTTP_PROXY", http?.href], ["NO_PROXY", noProxy]].flatMap(([name = "", value]) =>
      value === undefined ? [] : [[name, value], [name.toLowerCase(), value]]
    )
  )
