/**
 * Conditional requests. Answers are kept with their tags; an answer that did not change is not sent again. The host checks the present
 * token each time, so access rights still apply.
 */
import { LruCache } from "@slipway/domain/store/LruCache"
import { Effect, type Redacted, type Schema } from "effect"
import * as RestApi from "./RestApi.ts"

interface Kept {
  readonly etag: string
  readonly value: unknown
  readonly hasNext: boolean
  /** Characters of the value's JSON. */
  readonly characters: number
}

/** Characters of all kept answers: enough for a few hundred ordinary pull requests, or twenty full pages of long comments. */
const MAXIMUM_KEPT = 8 * 2 ** 20
/** The most that GitLab gives on a page. Hosts with a smaller limit cut it. */
const PER_PAGE = 100
/** A person reads fewer than a thousand comments or checks. */
const MAXIMUM_PAGES = 10

/** A read of one place of the API. */
export interface Read<A, I> {
  readonly path: string
  readonly query?: Readonly<Record<string, string | number | boolean>>
  readonly schema: Schema.Codec<A, I>
  readonly token: Redacted.Redacted
}

/** `sizes`: the names of the query parameters for the size of a page and its number, from 1. */
export const make = (host: RestApi.Host, sizes: { readonly size: string; readonly page: string }) => {
  const kept = new LruCache<string, Kept>(MAXIMUM_KEPT, ({ characters }) => characters)

  const page = Effect.fnUntraced(function*<A, I>({ path, query = {}, schema, token }: Read<A, I>) {
    const key = `${path}?${new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)]))}`
    const known = kept.get(key)
    const headers = known === undefined ? {} : { "if-none-match": known.etag }
    const answer = yield* RestApi.send(host, { method: "GET", path, query, token, headers }).pipe(
      RestApi.onStatus(304, () => Effect.succeed("unchanged" as const))
    )
    if (answer === "unchanged") {
      // Another read may have dropped it meanwhile.
      if (known !== undefined) kept.set(key, known)
      return { value: known?.value as A, hasNext: known?.hasNext === true }
    }
    const etag = answer.headers.get("etag")
    const hasNext = (answer.headers.get("link") ?? "").includes("rel=\"next\"")
    const read = { value: yield* RestApi.decode(host, schema, answer), hasNext }
    if (etag === null) kept.delete(key)
    else kept.set(key, { etag, ...read, characters: JSON.stringify(read.value).length })
    return read
  })

  return {
    one: <A, I>(read: Read<A, I>): Effect.Effect<A, RestApi.RestFailed> => Effect.map(page(read), ({ value }) => value),

    /** All pages of a list, up to {@link MAXIMUM_PAGES}. */
    all: Effect.fnUntraced(function*<A, I>(read: Read<ReadonlyArray<A>, I>) {
      const found: Array<A> = []
      for (let number = 1; number <= MAXIMUM_PAGES; number++) {
        const { hasNext, value } = yield* page({ ...read, query: { ...read.query, [sizes.size]: PER_PAGE, [sizes.page]: number } })
        found.push(...value)
        if (!hasNext) break
      }
      return found
    })
  }
}
