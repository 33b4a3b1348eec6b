import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/** Sends its second argument to the URL that is its first, and prints the answer. */
public class Ask {
    public static void main(String[] arguments) throws Exception {
        var body = HttpRequest.BodyPublishers.ofString(arguments[1]);
        var request = HttpRequest.newBuilder(URI.create(arguments[0])).POST(body).build();
        System.out.println(HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body());
    }
}
