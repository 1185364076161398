// `window.demo`: what the page is doing, for tests and the curious. Holds no token and changes nothing by itself.

/** `now()` answers the page's `{ session, socket, call }`, each of which may be missing yet. */
export function probe(now) {
  return {
    get state() {
      const { session, socket, call } = now();
      const { phase, conversationId, peer, role, note } = call ?? {};
      const connected = Boolean(socket?.connected);
      const transport = socket?.io.engine?.transport?.name;
      return { me: session?.me, connected, transport, phase, conversationId, peer, role, note };
    },
    get call() {
      return now().call;
    },
    get pc() {
      return now().call?.link?.pc ?? null;
    },
    get socketId() {
      return now().socket?.id;
    },
    /** Frames decoded so far, by what they show: `{ camera, screen }`; zero where nothing is received. */
    async frames() {
      const { camera, screen } = now().call?.far ?? {};
      return { camera: await this.framesOf(camera), screen: await this.framesOf(screen) };
    },
    async framesOf(track) {
      let frames = 0;
      if (!track || !this.pc) return frames;
      for (const entry of (await this.pc.getStats(track)).values()) {
        if (entry.type === 'inbound-rtp') frames += entry.framesDecoded ?? 0;
      }
      return frames;
    },
  };
}
