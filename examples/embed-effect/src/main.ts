import { NodeHttpServer, NodeRuntime } from "@effect/platform-node"
import { Config, Layer } from "effect"
import { HttpRouter } from "effect/http"
import { createServer } from "node:http"
import { Answers, domain, routes } from "./Service.ts"

HttpRouter.serve(routes).pipe(
  Layer.provide(domain),
  Layer.provide(Answers.layerEcho),
  Layer.provide(NodeHttpServer.layerConfig(createServer, { port: Config.Port("PORT").pipe(Config.withDefault(4200)) })),
  Layer.launch,
  NodeRuntime.runMain
)
