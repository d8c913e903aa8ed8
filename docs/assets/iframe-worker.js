// Search runs in a worker, which browsers refuse to pages of file:. There a hidden frame runs the same script.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.body.appendChild(document.createElement("iframe"))
      frame.hidden = true
      this.inside = frame.contentWindow
      this.inside.document.write(
        `<script>postMessage = data => parent.postMessage(data, "*")</script><script src="${url}"></script>`
      )
      this.inside.document.close()
      this.ready = new Promise(resolve => this.inside.addEventListener("load", resolve))
      addEventListener("message", ({ source, data }) => {
        if (source === this.inside) this.dispatchEvent(new MessageEvent("message", { data }))
      })
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {}
  }
}
