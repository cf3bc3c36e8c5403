/** A place in an object store with the API of S3: `s3://bucket/prefix?endpoint=https://host&region=name`. */

/** Where the objects are. */
export interface S3Address {
  readonly bucket: string
  /** Without slashes at its ends; empty: none. */
  readonly prefix: string
  readonly region: string
  /** Of an object store other than AWS; `null`: AWS. */
  readonly endpoint: string | null
}

/** Completes "it must be …". */
export const EXPECTED = "s3://bucket/prefix?endpoint=https://host&region=name"

const BUCKET = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/u
const PREFIX = /^(?:[\w-][\w.-]*(?:\/[\w-][\w.-]*)*)?$/u
const REGION = /^[a-z0-9-]{1,40}$/u
/** Characters. */
const MAX_PREFIX = 200

const isEndpoint = (text: string) => {
  if (!URL.canParse(text)) return false
  const { hash, hostname, password, pathname, protocol, search, username } = new URL(text)
  return /^https?:$/u.test(protocol) && hostname !== "" && pathname === "/" && `${hash}${search}${username}${password}` === ""
}

/** The problem with a text, without any secret that it may have; `null`: none. */
export const problemOf = (text: string): string | null => {
  if (!/^s3:\/\//u.test(text) || !URL.canParse(text)) return "it is no s3:// address"
  const { hash, hostname, password, pathname, port, searchParams, username } = new URL(text)
  const prefix = pathname.replace(/^\/|\/$/gu, "")
  const endpoint = searchParams.get("endpoint")
  const region = searchParams.get("region")
  const names = Array.from(searchParams.keys())
  if (`${username}${password}` !== "") return "it must not have credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
  if (!BUCKET.test(hostname) || port !== "") return "the name of the bucket is invalid"
  if (!PREFIX.test(prefix) || prefix.length > MAX_PREFIX) return "the prefix may have letters, digits, _, -, . and /"
  if (endpoint !== null && !isEndpoint(endpoint)) return "the endpoint must be an http or https address without path, query or user"
  if (region !== null && !REGION.test(region)) return "the region is invalid"
  if (hash !== "" || names.some((name) => name !== "endpoint" && name !== "region") || new Set(names).size < names.length) {
    return "it may have endpoint and region, once each, and nothing else"
  }
  return null
}

/** Of a text without {@link problemOf}. */
export const parse = (text: string): S3Address => {
  const { hostname, pathname, searchParams } = new URL(text)
  const endpoint = searchParams.get("endpoint")
  return {
    bucket: hostname,
    prefix: pathname.replace(/^\/|\/$/gu, ""),
    region: searchParams.get("region") ?? "us-east-1",
    endpoint: endpoint === null ? null : new URL(endpoint).origin
  }
}

/** As a text that {@link parse} reads. */
export const format = ({ bucket, endpoint, prefix, region }: S3Address): string => {
  const query = new URLSearchParams({ ...(endpoint === null ? {} : { endpoint }), region })
  return `s3://${bucket}${prefix === "" ? "" : `/${prefix}`}?${query}`
}

/** The address of an object. AWS has the bucket in the host's name, unless its dots would not fit the certificate; others in the path. */
export const urlOf = ({ bucket, endpoint, prefix, region }: S3Address, name: string): string => {
  const aws = `s3.${region}.amazonaws.com${region.startsWith("cn-") ? ".cn" : ""}`
  const base = endpoint !== null
    ? `${endpoint}/${bucket}`
    : bucket.includes(".")
    ? `https://${aws}/${bucket}`
    : `https://${bucket}.${aws}`
  return [base, ...(prefix === "" ? [] : [prefix]), name].join("/")
}
