/**
 * Asks a server with OpenAI's API for its models: `GET /models`, and LiteLLM's `GET /model/info` for prices. Texts of the server are
 * data: only names, numbers and prices of the known form are taken.
 */
import type { ServedModel } from "@slipway/domain/models/rules/ModelProviders"
import type { Prices } from "@slipway/domain/models/schema/ModelCatalogue"
import { ProviderModel } from "@slipway/domain/models/schema/ModelProvider"
import { Effect, Redacted, Schema } from "effect"
import { isObject, objectAt } from "../protocols/JsonFields.ts"
import type { Json } from "../protocols/Protocol.ts"

/** The models could not be listed. The message says what happened and what to do, without texts of the server. */
export class ModelsNotListed extends Schema.TaggedError<ModelsNotListed>()("ModelsNotListed", { detail: Schema.String }) {
  override get message() {
    return this.detail
  }
}

export interface Served {
  /** The address that answered: the given one, or with `/v1` behind it. */
  readonly baseUrl: string
  readonly models: ReadonlyArray<ServedModel>
}

const MAXIMUM_BYTES = 8 * 1024 * 1024
const MAXIMUM_MODELS = 1000
/** For each request. */
const MILLIS = 15_000

/** The answer of `read`; `null`: it is no JSON object. Redirects are not followed: the key must not go to another address. */
const get = async (url: string, key: Redacted.Redacted | null, signal: AbortSignal, millis: number) => {
  const response = await fetch(url, {
    redirect: "manual",
    signal: AbortSignal.any([signal, AbortSignal.timeout(millis)]),
    headers: { accept: "application/json", ...(key === null ? {} : { authorization: `Bearer ${Redacted.value(key)}` }) }
  })
  const chunks: Array<Uint8Array> = []
  let bytes = 0
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length
    if (bytes > MAXIMUM_BYTES) return { status: response.status, json: null }
    chunks.push(chunk)
  }
  try {
    const json: unknown = JSON.parse(Buffer.concat(chunks).toString("utf8"))
    return { status: response.status, json: isObject(json) ? json : null }
  } catch {
    return { status: response.status, json: null }
  }
}

type Reply = Awaited<ReturnType<typeof get>> | { readonly status: null; readonly json: null; readonly problem: string }

const problemOf = (error: unknown, millis: number): string => {
  if (error instanceof Error && error.name === "TimeoutError") return `no answer within ${millis / 1000} seconds`
  const cause: unknown = error instanceof Error ? error.cause : undefined
  return isObject(cause) && typeof cause["code"] === "string" ? cause["code"] : "the connection failed"
}

const asked = (url: string, key: Redacted.Redacted | null, millis: number): Effect.Effect<Reply> =>
  Effect.tryPromise({ try: (signal) => get(url, key, signal, millis), catch: (error) => problemOf(error, millis) }).pipe(
    Effect.catch((problem) => Effect.succeed({ status: null, json: null, problem }))
  )

/** The first of the fields that holds a positive whole number. */
const tokensAt = (json: Json, names: ReadonlyArray<string>): number | null => {
  for (const name of names) {
    const value = json[name]
    if (typeof value === "number" && Number.isSafeInteger(value) && value > 0) return value
  }
  return null
}

/** Micro-USD per million tokens, of USD per token; `null`: no price. */
const priceAt = (json: Json, name: string): number | null => {
  const value = json[name]
  const usd = typeof value === "string" && value.trim() !== "" ? Number(value) : value
  const price = typeof usd === "number" ? Math.round(usd * 1e12) : Number.NaN
  return Number.isSafeInteger(price) && price >= 0 ? price : null
}

/** `names`: the fields of input, output, cached input and cache write. A missing price of the cache is that of the input. */
const pricesIn = (json: Json, [input, output, cached, write]: readonly [string, string, string, string]): Prices | null => {
  const [given, answered] = [priceAt(json, input), priceAt(json, output)]
  if (given === null || answered === null) return null
  return { input: given, output: answered, cachedInput: priceAt(json, cached) ?? given, cacheWrite: priceAt(json, write) ?? given }
}

const isName = Schema.is(ProviderModel)

/** Fields of vLLM, OpenRouter, LM Studio, Mistral, Groq and llama.cpp. */
const CONTEXT = ["max_model_len", "context_length", "max_context_length", "context_window", "n_ctx_train"]
const OUTPUT = ["max_completion_tokens", "max_output_tokens"]

const modelIn = (value: unknown): ReadonlyArray<ServedModel> => {
  if (!isObject(value) || !isName(value["id"])) return []
  return [{
    name: value["id"],
    contextTokens: tokensAt(value, CONTEXT) ?? tokensAt(objectAt(value, "meta"), CONTEXT),
    outputTokens: tokensAt(value, OUTPUT) ?? tokensAt(objectAt(value, "top_provider"), OUTPUT),
    prices: pricesIn(objectAt(value, "pricing"), ["prompt", "completion", "input_cache_read", "input_cache_write"])
  }]
}

/** LiteLLM's facts about its models, by name. */
const factsIn = (json: Json | null): ReadonlyMap<string, Omit<ServedModel, "name">> => {
  const data = json?.["data"]
  return new Map((Array.isArray(data) ? data : []).flatMap((one) => {
    if (!isObject(one) || typeof one["model_name"] !== "string") return []
    const info = objectAt(one, "model_info")
    return [[one["model_name"], {
      contextTokens: tokensAt(info, ["max_input_tokens"]),
      outputTokens: tokensAt(info, ["max_output_tokens"]),
      prices: pricesIn(info, [
        "input_cost_per_token",
        "output_cost_per_token",
        "cache_read_input_token_cost",
        "cache_creation_input_token_cost"
      ])
    }]]
  }))
}

const listed = (reply: Reply): ReadonlyArray<unknown> | null => {
  const data = reply.status === 200 ? reply.json?.["data"] : undefined
  return Array.isArray(data) ? data : null
}

const refusal = (baseUrl: string, reply: Reply, hasKey: boolean): string => {
  const { host } = new URL(baseUrl)
  if (reply.status === null) return `${host} cannot be reached: ${reply.problem}. Start the server, or correct the address.`
  if (reply.status === 401 || reply.status === 403) {
    return hasKey
      ? `${host} refuses the key (status ${reply.status}). Set a valid key.`
      : `${host} needs a key (status ${reply.status}). Name the variable with the key: --key-variable NAME.`
  }
  if (reply.status >= 300 && reply.status < 400) {
    return `${host} redirects to another address (status ${reply.status}). Name the address of the server itself.`
  }
  if (reply.status >= 500) return `${host} failed (status ${reply.status}). Try again later.`
  const where = `${host} lists no models at ${baseUrl}/models (status ${reply.status}).`
  return `${where} Name the part of its API's address before /chat/completions.`
}

/** The models of the server. `address`: the part before `/chat/completions`; a missing `/v1` is found. `millis`: for each request. */
export const list = Effect.fn("ServedModels.list")(function*(address: string, key: Redacted.Redacted | null, millis: number = MILLIS) {
  const given = address.replace(/(?<!\/)\/+$/u, "")
  const candidates = given.endsWith("/v1") ? [given] : [given, `${given}/v1`]
  let first: Reply | undefined
  for (const baseUrl of candidates) {
    const reply = yield* asked(`${baseUrl}/models`, key, millis)
    first ??= reply
    const data = listed(reply)
    if (data === null) {
      // An address that does not answer, or refuses the key, is the right one.
      if (reply.status === null || reply.status === 401 || reply.status === 403) break
      continue
    }
    const facts = factsIn((yield* asked(`${baseUrl}/model/info`, key, millis)).json)
    const models = data.slice(0, MAXIMUM_MODELS).flatMap(modelIn).map((model): ServedModel => {
      const known = facts.get(model.name)
      return {
        name: model.name,
        contextTokens: model.contextTokens ?? known?.contextTokens ?? null,
        outputTokens: model.outputTokens ?? known?.outputTokens ?? null,
        prices: model.prices ?? known?.prices ?? null
      }
    })
    const named = new Map(models.map((model) => [model.name, model]))
    return { baseUrl, models: [...named.values()] } satisfies Served
  }
  return yield* new ModelsNotListed({ detail: refusal(given, first ?? { status: null, json: null, problem: "" }, key !== null) })
})
