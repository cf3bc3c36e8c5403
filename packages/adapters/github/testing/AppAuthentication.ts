/** GitHub's side of an App's credentials: its JWTs, its installations, and the tokens they are given. */
import { createPublicKey, generateKeyPairSync, randomBytes, type KeyObject, verify } from "node:crypto"

export type Level = "read" | "write"
export type Permissions = Readonly<Record<string, Level>>

export interface Installation {
  readonly id: number
  /** A login. */
  readonly account: string
  /** The permissions that the account granted; tokens never have more. */
  permissions: Permissions
  /** Names without their owner, or `all` of the account's. */
  repositories: "all" | Array<string>
  suspended: boolean
  /** The primary rate limit: requests an hour, and those that are left. */
  limit: number
  remaining: number
}

export interface Token {
  readonly installation: Installation
  readonly permissions: Permissions
  /** Ids. `null`: all that the installation has. */
  readonly repositories: ReadonlySet<number> | null
  expiresAtMillis: number
}

/** An answer in GitHub's own words. */
interface Refusal {
  readonly status: number
  readonly message: string
}

/** Tokens live an hour. https://docs.github.com/en/rest/apps/apps#create-an-installation-access-token-for-an-app */
const TOKEN_LIFE_MILLIS = 3_600_000
/**
 * The longest a JWT may live.
 * https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-json-web-token-jwt-for-a-github-app
 */
const JWT_LIFE_SECONDS = 600

const undecodable: Refusal = { status: 401, message: "A JSON web token could not be decoded" }

const decode = (part: string): unknown => {
  try {
    return JSON.parse(Buffer.from(part, "base64url").toString())
  } catch {
    return undefined
  }
}

/** A pair of keys takes a while to find: one for all servers of a process. */
let pair: { readonly privateKey: string; readonly publicKey: KeyObject } | undefined
const keys = () => {
  if (pair === undefined) {
    const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 })
    // PKCS#1, as GitHub hands keys out.
    pair = { privateKey: privateKey.export({ type: "pkcs1", format: "pem" }).toString(), publicKey: createPublicKey(privateKey) }
  }
  return pair
}

export const isGranted = (granted: Permissions, permission: string, level: Level): boolean =>
  granted[permission] === level || granted[permission] === "write" && level === "read"

export class AppAuthentication {
  readonly appId = 4711
  readonly slug = "slipway"
  readonly privateKey = keys().privateKey
  /** `v1.` with GitHub Enterprise of old. */
  tokenPrefix = "ghs_"
  readonly installations: Array<Installation> = []
  /** Every token ever given, so that tests can look for them. */
  readonly issued: Array<string> = []
  readonly #tokens = new Map<string, Token>()
  readonly #now: () => number

  constructor(now: () => number) {
    this.#now = now
  }

  /** The fault of an `Authorization` that should be the App's own; `undefined`: none. */
  refusalOfJwt(authorization: string | undefined): Refusal | undefined {
    const jwt = /^bearer (\S+)$/iu.exec(authorization ?? "")?.[1]?.split(".")
    if (jwt?.length !== 3) return undecodable
    const [head = "", payload = "", signature = ""] = jwt
    const header = decode(head) as { alg?: unknown } | undefined
    if (header?.alg !== "RS256") return undecodable
    const claims = decode(payload) as { iss?: unknown; iat?: unknown; exp?: unknown } | undefined
    if (claims?.iss === undefined) return { status: 401, message: "Missing 'issuer' claim ('iss')" }
    if (String(claims.iss) !== String(this.appId)) return { status: 404, message: "Integration not found" }
    if (!verify("RSA-SHA256", Buffer.from(`${head}.${payload}`), keys().publicKey, Buffer.from(signature, "base64url"))) return undecodable
    const now = this.#now() / 1000
    const { exp, iat } = claims
    if (typeof iat !== "number" || iat > now) {
      return { status: 401, message: "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued" }
    }
    if (typeof exp !== "number" || exp <= now) {
      return {
        status: 401,
        message: "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires"
      }
    }
    if (exp > now + JWT_LIFE_SECONDS) return { status: 401, message: "'Expiration time' claim ('exp') is too far in the future" }
    return undefined
  }

  install(account: string, options: Partial<Pick<Installation, "permissions" | "repositories">> = {}): Installation {
    const installation: Installation = {
      id: 100 + this.installations.length,
      account,
      permissions: { metadata: "read", contents: "write", pull_requests: "write", checks: "write", actions: "read", issues: "write" },
      repositories: "all",
      suspended: false,
      limit: 5000,
      remaining: 5000,
      ...options
    }
    this.installations.push(installation)
    return installation
  }

  installationOf(account: string, repository: string): Installation | undefined {
    return this.installations.find((installation) =>
      installation.account.toLowerCase() === account.toLowerCase() &&
      (installation.repositories === "all" || installation.repositories.some((name) => name.toLowerCase() === repository.toLowerCase()))
    )
  }

  /** Gives a token. Whether the installation may give this much was checked before. */
  mint(
    installation: Installation,
    permissions: Permissions,
    repositories: ReadonlySet<number> | null
  ): { readonly value: string; readonly token: Token } {
    const value = this.tokenPrefix + randomBytes(18).toString("hex")
    const token: Token = {
      installation,
      permissions: { metadata: "read", ...permissions },
      repositories,
      expiresAtMillis: this.#now() + TOKEN_LIFE_MILLIS
    }
    this.issued.push(value)
    this.#tokens.set(value, token)
    return { value, token }
  }

  token(value: string): Token | undefined {
    const token = this.#tokens.get(value)
    return token === undefined || token.expiresAtMillis <= this.#now() || token.installation.suspended ? undefined : token
  }

  revoke(value: string): void {
    this.#tokens.delete(value)
  }

  /** Lets all tokens that were given so far run out. */
  expireTokens(): void {
    for (const token of this.#tokens.values()) token.expiresAtMillis = 0
  }
}
