import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/** Answers every request to / with one line. */
public final class Hello {
    /**
     * How long a request may still run when the pod ends. No new ones come in then: a pod that build-controller deploys
     * gets its SIGTERM some seconds after it was taken out of the Service.
     */
    private static final long LONGEST_REQUEST_SECONDS = 20;

    public static void main(String[] args) throws Exception {
        String version = System.getenv().getOrDefault("VERSION", "dev");
        byte[] answer = ("Hello from Java, version " + version + "\n").getBytes(StandardCharsets.UTF_8);

        HttpServer server = HttpServer.create(new InetSocketAddress(8080), 0);
        server.createContext("/", exchange -> {
            try (exchange) {
                exchange.getRequestBody().readAllBytes();
                if (!exchange.getRequestURI().getPath().equals("/")) {
                    exchange.sendResponseHeaders(404, -1);
                    return;
                }
                exchange.getResponseHeaders().set("Content-Type", "text/plain; charset=utf-8");
                exchange.sendResponseHeaders(200, answer.length);
                exchange.getResponseBody().write(answer);
            }
        });
        ExecutorService requests = Executors.newFixedThreadPool(8);
        server.setExecutor(requests);

        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            System.out.println("asked to stop");
            try {
                // Not HttpServer.stop with a delay: it would sit out the whole delay even when nothing runs.
                requests.shutdown();
                requests.awaitTermination(LONGEST_REQUEST_SECONDS, TimeUnit.SECONDS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            server.stop(0);
            System.out.println("stopped");
        }));

        server.start();
        System.out.println("version " + version + " listens on " + server.getAddress());
    }

    private Hello() {}
}
