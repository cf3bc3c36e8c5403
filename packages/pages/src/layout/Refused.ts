/** A refusal as a page. */
import { Data } from "effect"
import type { Html } from "../html/Html.ts"

/** An answer that is a page of its own. Nothing was changed. */
export class Refused extends Data.TaggedError("Refused")<{
  readonly status: 400 | 401 | 403 | 404 | 405 | 409 | 413 | 415 | 429 | 500 | 502 | 503
  readonly title: string
  /** Sentences for people: what is wrong, and what helps. */
  readonly text: string
  /** Beneath the text. */
  readonly more?: Html
  readonly headers?: Readonly<Record<string, string>>
}> {
  static bad(text: string): Refused {
    return new Refused({ status: 400, title: "Invalid request", text })
  }

  static notFound(text: string): Refused {
    return new Refused({ status: 404, title: "Not found", text })
  }
}
