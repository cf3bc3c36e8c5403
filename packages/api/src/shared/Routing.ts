/** What groups and endpoints say of their addresses, beside their schemas. Whoever needs to know asks the definition. */
import type { Scope } from "@slipway/domain/access/schema/Principal"
import { Context } from "effect"

/** Parts of the service, by which requests are counted. `other`: an address where nothing is. */
export const AREAS = [
  "sandboxes",
  "messages",
  "checkpoints",
  "events",
  "stream",
  "approvals",
  "files",
  "pull_requests",
  "feed",
  "internal",
  "metrics",
  "health",
  "docs",
  "hooks",
  "device_logins",
  "pages",
  "other"
] as const
export type AreaName = typeof AREAS[number]

/** The part of the service that an endpoint is of. Every group has one. */
export class Area extends Context.Service<Area, AreaName>()("@slipway/api/Area") {}

/** What a key must be allowed to, to be heard at all. Every group has one that asks for keys. */
export class NeededScope extends Context.Service<NeededScope, Scope>()("@slipway/api/NeededScope") {}

/** An endpoint without headers worth asking for alone. */
export const WithoutHead = Context.Reference<boolean>("@slipway/api/WithoutHead", { defaultValue: () => false })
