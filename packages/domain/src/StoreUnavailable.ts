import * as Schema from "effect/Schema"

/**
 * The store cannot answer now (connection lost, lock timeout). The same call may succeed later. Nothing was written, unless
 * the connection was lost at the commit: then only the answer may be missing.
 */
export class StoreUnavailable extends Schema.TaggedError<StoreUnavailable>()("StoreUnavailable", {
  cause: Schema.Defect()
}) {
  override get message() {
    return "The store is not available."
  }
}
