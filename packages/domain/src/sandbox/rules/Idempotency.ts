/**
 * Idempotent creation (docs/decisions/4). The key is written in the transaction of what it accounts for, so it
 * exists only once the work is done: there is no "in progress", and a failed attempt leaves the key free.
 */
import * as Data from "effect/Data"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type { Ids } from "../../ids/Ids.ts"
import type { IdempotencyKey } from "../schema/Idempotency.ts"

export type { IdempotencyKey } from "../schema/Idempotency.ts"

/** Bound to the request it came with. Equal fingerprints are the same request. */
export interface KeyedRequest {
  readonly key: IdempotencyKey
  /** SHA-256 of the canonical request, hex, after its version: `1:<hex>`. */
  readonly fingerprint: string
}

/** The key was used for another request. The caller's mistake: retrying cannot succeed. */
export class IdempotencyConflict extends Data.TaggedError("IdempotencyConflict") {
  override get message() {
    return "This Idempotency-Key was already used with a different request."
  }
}

/** How long a key answers for its request; 24 hours are promised, 30 days kept (docs/decisions/4). */
export const RETENTION_DAYS = 30

type Json = null | boolean | number | string | ReadonlyArray<Json> | { readonly [key: string]: Json }

/** `Array.isArray`, for readonly ones. */
const isList = (value: Json): value is ReadonlyArray<Json> => Array.isArray(value)

/** JSON with the keys of every object in code unit order. Array order counts; strings are not normalised. */
export const canonicalJson = (value: Json): string => {
  if (isList(value)) return `[${value.map(canonicalJson).join(",")}]`
  if (value === null || typeof value !== "object") return JSON.stringify(value)
  return `{${Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key]!)}`).join(",")}}`
}

/** Version 1: the decoded body with the interface's defaults filled in. An omitted model stays omitted. */
export const fingerprint = (ids: Pick<Ids["Service"], "digest">, request: Json): string => `1:${ids.digest(canonicalJson(request))}`

/** `null` without a key. */
export const keyed = (ids: Pick<Ids["Service"], "digest">, key: Option.Option<IdempotencyKey>, request: Json): KeyedRequest | null =>
  Option.isNone(key) ? null : { key: key.value, fingerprint: fingerprint(ids, request) }

/** Whether the request is the one its key is bound to, which has the fingerprint `bound`: then it is a replay. */
export const resolve = (bound: string, request: KeyedRequest): Result.Result<"replay", IdempotencyConflict> =>
  bound === request.fingerprint ? Result.succeed("replay") : Result.fail(new IdempotencyConflict())
