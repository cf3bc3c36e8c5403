/**
 * `WebhookSender` on Node's HTTP client. Its addresses come from partners, so a request goes to public addresses alone: the
 * name is resolved once for each attempt, every address it has is checked, and the connection is made to one of those. Through a proxy of
 * the operator the name is checked as far as name servers know it here.
 */
import { type SignedRequest, TargetRefused, WebhookSender } from "@slipway/domain/partner/ports/WebhookSender"
import { ATTEMPT_TIME, type Outcome, type Trouble } from "@slipway/domain/partner/rules/Webhook"
import { type DateTime, Duration, Effect, Latch, Layer } from "effect"
import { lookup as resolve, Resolver } from "node:dns/promises"
import { isIP } from "node:net"
import { isPublic, pinnedTo } from "../egress/Addresses.ts"
import * as OutgoingRequest from "../network/OutgoingRequest.ts"
import { signatureOf } from "./Signature.ts"

export interface Options {
  /** Also plain http, and addresses that are not public. */
  readonly allowPrivate: boolean
  /** Every address of a name; fails or is empty when there is none. */
  readonly lookup?: (name: string) => Promise<ReadonlyArray<string>>
  /** As `address:port`, instead of the system's, where only public addresses count. */
  readonly nameServers?: ReadonlyArray<string>
  /** Which addresses count as public. */
  readonly mayConnect?: (address: string) => boolean
  /** How long a receiver has for its answer; `ATTEMPT_TIME` without it. */
  readonly attemptTime?: Duration.Duration
  /** Certificates that are trusted instead of the system's, PEM. */
  readonly ca?: string
}

/** Characters (ours: longer ones are cut by proxies and logs). */
const MAX_URL = 2000
/** The most bytes that are read of an answer; then the connection is closed. */
const MAX_READ_BYTES = 64 * 1024
/** The most bytes that are kept of an answer. */
const MAX_KEPT_BYTES = 1024
/** How long the rest of an answer is waited for once its status is there: the next event waits as long. */
const BODY_TIME = Duration.seconds(1)
/** How long a registration waits for the addresses of a name. */
const ADMISSION_TIME = Duration.seconds(5)
/** The timeout of one query to a name server, milliseconds; a query is sent twice. */
const NAME_SERVER_TIME = 2000
/** Longer waits all count as this one. */
const MAX_RETRY_AFTER = 999_999_999

const TLS_ERROR = /^(?:ERR_TLS|ERR_SSL|CERT_|EPROTO|DEPTH_ZERO|UNABLE_TO|SELF_SIGNED|HOSTNAME_MISMATCH|INVALID_)/u

const failed = (trouble: Trouble): Outcome => ({ _tag: "Failed", trouble })

/** One for each secret. */
const signatures = ({ at, body, id, secrets }: SignedRequest) =>
  secrets.map((secret) => signatureOf({ id, timestamp: String(seconds(at)), body }, secret)).join(" ")

const seconds = (at: DateTime.Utc) => Math.floor(at.epochMilliseconds / 1000)

/** Seconds that `Retry-After` asks to wait, given as such or as a date (RFC 9110, section 10.2.3). */
const retryAfter = (header: string | undefined, at: DateTime.Utc): number | null => {
  if (header === undefined) return null
  if (/^\d{1,9}$/u.test(header)) return Number(header)
  // Other spellings would be guessed at.
  const until = header.endsWith(" GMT") ? Date.parse(header) : Number.NaN
  return Number.isNaN(until) ? null : Math.min(Math.max(0, Math.ceil((until - at.epochMilliseconds) / 1000)), MAX_RETRY_AFTER)
}

/** The name or address that a URL leads to. */
const hostOf = ({ hostname }: URL) => hostname.replace(/^\[|\]$/gu, "")

/**
 * Every address that name servers know of the name. The system's resolver would know the machine's own names too, and keep
 * one of this process's four threads for as long as a server is silent: partners choose both.
 */
const publicAddressesOf = (nameServers: ReadonlyArray<string> | undefined) => async (name: string): Promise<ReadonlyArray<string>> => {
  const resolver = new Resolver({ timeout: NAME_SERVER_TIME, tries: 2 })
  if (nameServers !== undefined) resolver.setServers(nameServers)
  const found = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)])
  return found.flatMap((answer) => answer.status === "fulfilled" ? answer.value : [])
}

const exchange = (
  sent: SignedRequest,
  url: URL,
  addresses: ReadonlyArray<string>,
  ca: string | undefined,
  hear: (soFar: () => Outcome) => void
) =>
  Effect.callback<Outcome>((resume) => {
    const body = Buffer.from(sent.body)
    let isAnswered = false
    const request = OutgoingRequest.request(url, {
      method: "POST",
      ...addresses.length === 0 ? {} : { lookup: pinnedTo(addresses) },
      ...(ca === undefined ? {} : { ca }),
      headers: {
        "content-type": "application/json",
        "content-length": body.length,
        "user-agent": "Slipway-Webhooks/1",
        "webhook-id": sent.id,
        "webhook-timestamp": seconds(sent.at),
        "webhook-signature": signatures(sent)
      }
    })
    request.once("response", (response) => {
      const chunks: Array<Buffer> = []
      let read = 0
      const answered = (): Outcome => {
        const kept = Buffer.concat(chunks).subarray(0, MAX_KEPT_BYTES)
        return {
          _tag: "Answered",
          status: response.statusCode ?? 0,
          retryAfter: retryAfter(response.headers["retry-after"], sent.at),
          // Leaves out characters that Postgres cannot store; replaces a cut character.
          body: kept.length === 0 ? null : kept.toString("utf8").replaceAll("\0", "")
        }
      }
      isAnswered = true
      // The status counts from now on, whatever becomes of the rest.
      hear(answered)
      response.on("data", (chunk: Buffer) => {
        if (read < MAX_KEPT_BYTES) chunks.push(chunk)
        read += chunk.length
        if (read >= MAX_READ_BYTES) request.destroy()
      })
      response.on("error", () => {})
      response.once("close", () => resume(Effect.succeed(answered())))
    })
    const end = (trouble: Trouble) => {
      if (!isAnswered) resume(Effect.succeed(failed(trouble)))
    }
    request.on("error", (error: NodeJS.ErrnoException) => end(TLS_ERROR.test(error.code ?? "") ? "tls" : "connection"))
    request.once("close", () => end("connection"))
    request.end(body)
    return Effect.sync(() => request.destroy())
  })

export const layer = ({ allowPrivate, attemptTime = ATTEMPT_TIME, ca, lookup, mayConnect = isPublic, nameServers }: Options) => {
  const isAllowed = (address: string) => allowPrivate || mayConnect(address)
  const addressesOf = lookup ??
    (allowPrivate
      ? async (name: string) => (await resolve(name, { all: true })).map(({ address }) => address)
      : publicAddressesOf(nameServers))
  /** Empty: none now. */
  const resolved = (host: string) => isIP(host) === 0 ? Effect.promise(() => addressesOf(host).catch(() => [])) : Effect.succeed([host])

  return Layer.succeed(
    WebhookSender,
    WebhookSender.of({
      admit: Effect.fn("WebhookSender.admit")(function*(text) {
        const refuse = (reason: string) => new TargetRefused({ reason })
        if (text.length > MAX_URL || !URL.canParse(text)) return yield* refuse(`url: an address of at most ${MAX_URL} characters expected`)
        const url = new URL(text)
        if (url.protocol !== "https:" && !(allowPrivate && url.protocol === "http:")) return yield* refuse("url: https expected")
        if (url.username !== "" || url.password !== "") return yield* refuse("url: must not hold a user or a password")
        if (url.href.includes("#")) return yield* refuse("url: must not have a fragment")
        const addresses = yield* resolved(hostOf(url)).pipe(
          Effect.timeoutOrElse({ duration: ADMISSION_TIME, orElse: () => Effect.succeed([]) })
        )
        if (!addresses.every(isAllowed)) return yield* refuse("url: a public address expected")
        return url.href
      }),

      send: Effect.fn("WebhookSender.send")((sent) => {
        const url = new URL(sent.url)
        let soFar = () => failed("timeout")
        const isHeard = Latch.makeUnsafe(false)
        return Effect.gen(function*() {
          const addresses = yield* resolved(hostOf(url))
          if (addresses.length === 0 && !OutgoingRequest.isResolvedByProxy(url)) return failed("name_not_resolved")
          // One private address is enough: the owner of the name could choose among them.
          if (!addresses.every(isAllowed)) return failed("address_not_allowed")
          if (url.protocol !== "https:" && !allowPrivate) return failed("address_not_allowed")
          const exchanged = exchange(sent, url, addresses, ca, (answered) => {
            soFar = answered
            isHeard.openUnsafe()
          })
          return yield* Effect.raceFirst(exchanged, isHeard.await.pipe(Effect.andThen(Effect.sleep(BODY_TIME)), Effect.map(() => soFar())))
        }).pipe(Effect.timeoutOrElse({ duration: attemptTime, orElse: () => Effect.sync(soFar) }))
      })
    })
  )
}
