/** Annotations of groups and endpoints: their part of the service, their scope, whether they answer to HEAD. The server reads them. */
import type { Scope } from "@slipway/domain/access/schema/Principal"
import { Context } from "effect"

/** Parts of the service, by which requests are counted. `other`: an unknown address. */
export const AREAS = [
  "sandboxes",
  "messages",
  "checkpoints",
  "events",
  "stream",
  "approvals",
  "questions",
  "files",
  "pull_requests",
  "feed",
  "internal",
  "metrics",
  "health",
  "docs",
  "hooks",
  "device_logins",
  "mcp",
  "pages",
  "other"
] as const
/** The label `area` of the request metrics. */
export type AreaName = typeof AREAS[number]

/** The part of the service that an endpoint belongs to. Every group has one. */
export class Area extends Context.Service<Area, AreaName>()("@slipway/api/Area") {}

/** The scope that a key needs. Every group that asks for keys has one. */
export class NeededScope extends Context.Service<NeededScope, Scope>()("@slipway/api/NeededScope") {}

/** Whether the endpoint does not answer to HEAD. */
export const WithoutHead = Context.Reference<boolean>("@slipway/api/WithoutHead", { defaultValue: () => false })
