/** Secrets we draw ourselves: keys, sessions, sign-in links. Each is kept as its SHA-256 digest only, which 256 random bits make safe. */
import type * as Effect from "effect/Effect"
import type { Ids } from "../../ids/Ids.ts"

export const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
/** 62^43 > 2^256. */
const LENGTH = 43

/** 256 random bits in 43 characters of base62. */
export const draw = (ids: Pick<Ids["Service"], "random">): Effect.Effect<string> => ids.random(BASE62, LENGTH)
