/**
 * Conditional requests to GitHub. Answers are kept with their tags; a request with a valid tag costs neither bytes nor rate limit.
 * GitHub checks the tag with the present token each time, so access rights still apply.
 */
import { LruCache } from "@slipway/domain/store/LruCache"
import { Effect, type Schema } from "effect"
import { type Access, type GitHubApi, type GitHubFailed, onStatus, type TokenRefused } from "./GitHubApi.ts"

interface Kept {
  readonly etag: string
  readonly value: unknown
  readonly hasNext: boolean
  /** Characters of the value's JSON. */
  readonly characters: number
}

/** Characters of all kept answers: enough for a few hundred ordinary pull requests, or twenty full pages of long comments. */
const MAXIMUM_KEPT = 8 * 2 ** 20
const PER_PAGE = 100
/** A person reads fewer than a thousand comments or checks. */
const MAXIMUM_PAGES = 10

export const make = (api: GitHubApi) => {
  const kept = new LruCache<string, Kept>(MAXIMUM_KEPT, ({ characters }) => characters)

  const page = Effect.fnUntraced(
    function*<A, I>(access: Access, path: string, schema: Schema.Codec<A, I>, query: Readonly<Record<string, string | number>>) {
      const key = `${access.owner}/${access.name}${path}?${new URLSearchParams(
        Object.entries(query).map(([name, value]) => [name, String(value)])
      )}`
      const known = kept.get(key)
      const answer = yield* api.request(access, "GET", path, query, known === undefined ? {} : { "if-none-match": known.etag }).pipe(
        onStatus(304, () => Effect.succeed("unchanged" as const))
      )
      if (answer === "unchanged") {
        if (known !== undefined) kept.set(key, known)
        return { value: known?.value as A, hasNext: known?.hasNext === true }
      }
      const { etag, link = "" } = answer.headers
      const read = { value: yield* api.decode(schema, answer), hasNext: link.includes("rel=\"next\"") }
      if (etag === undefined) kept.delete(key)
      else kept.set(key, { etag, ...read, characters: JSON.stringify(read.value).length })
      return read
    }
  )

  return {
    one: <A, I>(access: Access, path: string, schema: Schema.Codec<A, I>): Effect.Effect<A, GitHubFailed | TokenRefused> =>
      Effect.map(page(access, path, schema, {}), ({ value }) => value),

    /** All pages of a list, up to {@link MAXIMUM_PAGES}. */
    all: Effect.fnUntraced(
      function*<A, I>(access: Access, path: string, schema: Schema.Codec<A, I>, query: Readonly<Record<string, string>> = {}) {
        const pages: Array<A> = []
        for (let number = 1; number <= MAXIMUM_PAGES; number++) {
          const { hasNext, value } = yield* page(access, path, schema, { ...query, per_page: PER_PAGE, page: number })
          pages.push(value)
          if (!hasNext) break
        }
        return pages
      }
    )
  }
}
