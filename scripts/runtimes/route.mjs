// A catch-all route handler of Next.js: app/slipway/[...path]/route.js
import { key, slipway } from "../../../slipway.mjs"

const handle = (request) => new URL(request.url).pathname === "/slipway/key" ? new Response(key) : slipway.fetch(request)

export const dynamic = "force-dynamic"
export { handle as DELETE, handle as GET, handle as POST }
