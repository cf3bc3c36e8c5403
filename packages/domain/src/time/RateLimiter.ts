/** Rate limiters: work that a stranger can cause must not take all the time of a process. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"

/** Short enough that the bursts of several limiters at once do not delay other work noticeably. */
const PERIOD_MILLIS = 250

/**
 * Lets `perSecond` units through in each second, a quarter of them at once; a caller that exceeds it waits. A larger amount waits
 * for as many quarters as it takes.
 */
export const make = (perSecond: number): (amount: number) => Effect.Effect<void> => {
  const most = perSecond * PERIOD_MILLIS / 1000
  let began = Number.NEGATIVE_INFINITY
  let used = 0
  /** Milliseconds left of the current period; the next period begins when it is over. */
  const look = Effect.map(Clock.currentTimeMillis, (now) => {
    const periods = Math.floor((now - began) / PERIOD_MILLIS)
    if (periods >= 1) {
      used = Math.max(0, used - periods * most)
      began = now
    }
    return began + PERIOD_MILLIS - now
  })
  return Effect.fnUntraced(function*(amount: number) {
    let left = yield* look
    used += amount
    while (used > most) {
      yield* Effect.sleep(left)
      left = yield* look
    }
  })
}

/** A token bucket. An amount taken beyond its content is a debt, which is paid off before anything is left again. */
export interface Allowance {
  /** Takes `amount` and answers whether there was that much. */
  readonly take: (amount: number, nowMillis: number) => boolean
  /** Milliseconds until the debt is paid; 0: no debt. */
  readonly debtMillis: (nowMillis: number) => number
}

/** Full at first. The debt never exceeds `atOnce`, so no caller is refused for ever. */
export const allowance = ({ atOnce, perSecond }: { readonly perSecond: number; readonly atOnce: number }): Allowance => {
  let left = atOnce
  let at = Number.NEGATIVE_INFINITY
  const look = (now: number) => {
    left = Math.min(atOnce, left + Math.max(0, now - at) * perSecond / 1000)
    at = Math.max(at, now)
  }
  return {
    take: (amount, now) => {
      look(now)
      left = Math.max(-atOnce, left - amount)
      return left >= 0
    },
    debtMillis: (now) => {
      look(now)
      return left >= 0 ? 0 : Math.ceil(-left * 1000 / perSecond)
    }
  }
}
