/** All stores of sandboxes over one file. */
import * as StoreKit from "@slipway/domain/sandbox/kit/StoreKit"
import { Effect, Layer } from "effect"
import { Database } from "./Database.ts"
import * as Statements from "./Statements.ts"

/** `connect`: see `Database.open`. */
export const layer = (...parameters: Parameters<typeof Database.open>) =>
  Layer.unwrap(Effect.map(Database.open(...parameters), (database) => StoreKit.layer(Statements.make(database))))
