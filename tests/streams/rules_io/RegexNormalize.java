import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import javax.xml.parsers.DocumentBuilderFactory;
import org.w3c.dom.Document;
import org.w3c.dom.Element;
import org.w3c.dom.NodeList;
import org.w3c.dom.Text;

/** Does to URLs on standard input what RegexURLNormalizer of Nutch does with a regex-normalize.xml: every pattern in the
 * order of the file, once, by replaceAll. */
public final class RegexNormalize {
    private record Rule(Pattern pattern, String substitution) {}

    public static void main(String[] arguments) throws Exception {
        List<Rule> rules = read(new File(arguments[0]));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String url = in.readLine(); url != null; url = in.readLine()) {
            for (Rule rule : rules) {
                url = rule.pattern.matcher(url).replaceAll(rule.substitution);
            }
            out.println(url);
        }
        out.flush();
    }

    private static List<Rule> read(File file) throws Exception {
        Document document = DocumentBuilderFactory.newInstance().newDocumentBuilder().parse(file);
        NodeList regexes = document.getDocumentElement().getChildNodes();
        List<Rule> rules = new ArrayList<>();
        for (int i = 0; i < regexes.getLength(); i++) {
            if (!(regexes.item(i) instanceof Element regex)) {
                continue;
            }
            String pattern = null;
            String substitution = null;
            NodeList fields = regex.getChildNodes();
            for (int j = 0; j < fields.getLength(); j++) {
                if (!(fields.item(j) instanceof Element field)) {
                    continue;
                }
                if ("pattern".equals(field.getTagName()) && field.hasChildNodes()) {
                    pattern = ((Text) field.getFirstChild()).getData();
                }
                if ("substitution".equals(field.getTagName()) && field.hasChildNodes()) {
                    substitution = ((Text) field.getFirstChild()).getData();
                }
                if (!field.hasChildNodes()) {
                    substitution = "";
                }
            }
            if (pattern != null && substitution != null) {
                rules.add(new Rule(Pattern.compile(pattern), substitution));
            }
        }
        return rules;
    }
}
