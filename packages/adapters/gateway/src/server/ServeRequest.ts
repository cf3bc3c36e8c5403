/** One request of an agent: read, checked, reserved, sent to the provider and charged. */
import { codeOf, type ModelCall, type SpendingRefused } from "@slipway/domain/models/ports/Spending"
import { noTokens } from "@slipway/domain/models/rules/Budget"
import * as RootSpan from "@slipway/domain/observability/RootSpan"
import { Cause, Effect, Exit, Fiber, Result } from "effect"
import type { IncomingMessage, ServerResponse } from "node:http"
import { charge, CHARGE_WAIT, reserve } from "../accounting/Charge.ts"
import { ofCutOff, upperBound } from "../accounting/Estimate.ts"
import { tookOf } from "../accounting/LiveAccount.ts"
import type { Authorized } from "../credentials/CloudCredentials.ts"
import type { Prepared } from "../preparation/Preparation.ts"
import { UsageMeter } from "../protocols/UsageMeter.ts"
import type { AgentHeaders } from "../providers/Destination.ts"
import type { Entry } from "./Admission.ts"
import { exchange, type Outcome, type Outgoing, refuse } from "./Exchange.ts"
import { credentialsErrorOf, type ProviderError, providerErrorOf } from "./ProviderErrors.ts"
import { readBody } from "./ReadBody.ts"
import * as Refusals from "./Refusals.ts"
import type { Gateway, Session } from "./Session.ts"

/** The least cost of a refused request, in bytes read in vain. */
const REFUSAL_BYTES = 64 * 1024

/** A request with a body that may be sent to the provider. */
interface Call {
  readonly gateway: Gateway
  readonly session: Session
  readonly prepared: Prepared
  readonly call: ModelCall
  readonly isFree: boolean
  /** The usage in the answer, after it has begun. */
  meter: UsageMeter | null
  outcome: Outcome
  /** By `performance.now()`. */
  sentAt: number
}

/** The attributes of a model's usage in OpenTelemetry's conventions. */
const usageOf = ({ input, output }: { readonly input: number; readonly output: number }) => ({
  "gen_ai.usage.input_tokens": input,
  "gen_ai.usage.output_tokens": output
})

const urlOf = ({ destination, upstream }: Session, path: string, request: IncomingMessage, streaming: boolean): URL => {
  const query = new URL(request.url ?? "/", "http://gateway").searchParams
  return destination.url(upstream, path, { streaming, isBeta: query.get("beta") === "true" })
}

/** The headers of the agent that the protocol allows. */
const agentHeaders = ({ protocol, upstream }: Session, request: IncomingMessage): AgentHeaders => {
  const headers: Record<string, string> = {}
  for (const name of protocol.headers) {
    const value = request.headers[name]
    const passed = typeof value === "string" ? protocol.header(value, upstream) : ""
    if (passed !== "") headers[name] = passed
  }
  return headers
}

const headersOf = ({ destination }: Session, agent: AgentHeaders, { headers }: Authorized, streaming: boolean): Record<string, string> => ({
  "content-type": "application/json",
  accept: streaming ? destination.accepts : "application/json",
  "accept-encoding": "identity",
  "user-agent": "slipway",
  ...headers,
  ...destination.headers(agent)
})

/** The beginning of this upstream's entries in `logged`. */
const loggedAs = ({ upstream }: Session) => `${upstream.baseUrl} ${upstream.model} `

/** Keeps a provider's error for the account, and logs the first of its kind. */
const failed = ({ gateway: { logged, runCharge }, session }: Call, status: number | null, error: ProviderError | null) => {
  const { account, sandboxId, upstream } = session
  if (error === null) return
  account.troubled({ message: error.message })
  const known = loggedAs(session) + error.kind
  if (logged.has(known)) return
  logged.add(known)
  runCharge(Effect.logWarning("a model's provider does not answer as it should", {
    sandboxId,
    model: upstream.model,
    status,
    trouble: error.kind,
    what: error.message
  }))
}

const counted = ({ call, isFree, meter, session: { account, upstream } }: Call) => {
  if (!isFree) account.counting(call.id, tookOf(upstream, meter?.counted.tokens ?? noTokens))
}

/** The provider answers, so the account has no error any more. */
const answering = (request: Call, streaming: boolean): UsageMeter => {
  const { gateway: { logged }, session } = request
  session.account.troubled(undefined)
  const own = loggedAs(session)
  for (const known of logged) if (known.startsWith(own)) logged.delete(known)
  request.meter = new UsageMeter(session.protocol, streaming)
  counted(request)
  return request.meter
}

const outgoing = (request: Call, { secrets }: Authorized, url: URL, headers: Readonly<Record<string, string>>): Outgoing => {
  const { gateway, prepared, session } = request
  return {
    url,
    agent: gateway.agents[url.protocol === "https:" ? "https:" : "http:"],
    headers,
    body: prepared.body,
    secrets,
    decoder: session.decoder,
    protocol: session.protocol,
    limits: gateway.limits,
    failed: (status, said) => {
      if (status === 401 || status === 403) session.credentialsRefused()
      failed(request, status, providerErrorOf(session.upstream, status, said))
    },
    meter: (streaming) => answering(request, streaming),
    counted: () => counted(request)
  }
}

/** Charges a finished request. */
const settle = ({ call, gateway, meter, outcome, prepared, sentAt, session }: Call) => {
  const { final, tokens: known } = meter?.counted ?? { final: false, tokens: noTokens }
  const tokens = outcome === "refused" ? noTokens : final ? known : ofCutOff(prepared, {
    known,
    receivedBytes: meter?.isPartial === true ? Infinity : meter?.bytes ?? 0,
    whole: outcome === "answered",
    elapsedMillis: performance.now() - sentAt
  })
  const took = outcome === "unsent" ? null : tookOf(session.upstream, tokens)
  session.account.settle(call.id, took)
  return Effect.asVoid(Effect.timeoutOption(Fiber.await(gateway.runCharge(charge(gateway.spending, call, took))), CHARGE_WAIT))
}

/** Reserves what the request may cost, sends it, and charges it. */
const exchangePaid = (
  request: Call,
  out: Outgoing,
  response: ServerResponse,
  refused: (refusal: Refusals.Refusal) => Effect.Effect<void>
) => {
  const { call, gateway: { holdMillis, runCharge, spending }, prepared, session } = request
  const tooExpensive = (refusal: SpendingRefused) => {
    session.account.refused(codeOf(refusal))
    return refused(Refusals.tooExpensive(refusal))
  }
  return Effect.gen(function*() {
    yield* reserve(spending, call, upperBound(session.upstream, prepared), holdMillis)
    request.outcome = "cut"
    request.sentAt = performance.now()
    request.outcome = yield* exchange(out, response)
  }).pipe(
    Effect.onExit((exit) => Exit.isFailure(exit) && Cause.hasFails(exit.cause) ? Effect.void : Effect.suspend(() => settle(request))),
    Effect.catchTags({
      BudgetExceeded: tooExpensive,
      NoCredits: tooExpensive,
      StoreUnavailable: () => {
        // Perhaps only the answer was lost.
        runCharge(charge(spending, call, null))
        return refused(Refusals.unaccountable)
      }
    })
  )
}

/** `isFree`: the path costs nothing. */
export const serve = Effect.fnUntraced(function*(
  gateway: Gateway,
  session: Session,
  entry: Entry,
  request: IncomingMessage,
  response: ServerResponse,
  path: string,
  isFree: boolean
) {
  const { budget, grantId, protocol, sandboxId, upstream } = session
  let readBytes = 0
  const refused = ({ headers, ...error }: Refusals.Refusal) =>
    Effect.sync(() => {
      session.refusals.take(REFUSAL_BYTES + readBytes, performance.now())
      refuse(response, protocol, error, headers)
    })

  const encoding = request.headers["content-encoding"] ?? "identity"
  if (encoding !== "identity") return yield* refused(Refusals.compressed)
  const bytes = yield* readBody(gateway, request, entry, (length) => {
    readBytes = length
  })
  if (bytes === "gone") return
  if (typeof bytes === "string") return yield* refused(Refusals.unreadBody(bytes, gateway.maximumBytes))
  const agent = agentHeaders(session, request)
  const prepared = yield* Effect.catch(gateway.prepare(sandboxId, { bytes, upstream, free: isFree, headers: agent }), Effect.succeed)
  if (prepared === null || prepared === "too busy" || "field" in prepared) {
    return yield* refused(Refusals.unprepared(prepared, gateway.nameOf("addresses")))
  }
  const call: Call = {
    gateway,
    session,
    prepared,
    call: { id: yield* gateway.ids.uuid7, sandboxId, grantId, budget },
    isFree,
    meter: null,
    outcome: "unsent",
    sentAt: 0
  }
  const url = urlOf(session, path, request, prepared.streaming)
  // As late as possible, so that a replaced key is used at once.
  const authorized = yield* Effect.result(session.authorize({ method: "POST", url, body: prepared.body }))
  if (Result.isFailure(authorized)) {
    failed(call, null, credentialsErrorOf(upstream, authorized.failure.problem))
    return yield* refused(Refusals.noCredentials)
  }
  if (authorized.success === null) {
    session.account.troubled({ message: Refusals.noAccount.message })
    return yield* refused(Refusals.noAccount)
  }
  const out = outgoing(call, authorized.success, url, headersOf(session, agent, authorized.success, prepared.streaming))
  yield* isFree ? exchange(out, response) : exchangePaid(call, out, response, refused)
  yield* Effect.suspend(() =>
    RootSpan.annotate({ "http.response.status_code": response.statusCode, ...usageOf(call.meter?.counted.tokens ?? noTokens) })
  )
  yield* Effect.logDebug("a request to a model", { sandboxId, model: upstream.model, outcome: call.outcome, status: response.statusCode })
})
